// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
)

// profiles measures what the profile's groups tell of placement, and how well
// it predicts run times.
func profiles(ctx context.Context, out io.Writer) error {
	if err := groups(ctx, out); err != nil {
		return err
	}
	return runTimes(ctx, out)
}
