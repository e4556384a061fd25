// SPDX-License-Identifier: Apache-2.0

package slurm

import "fmt"

// Release is a Slurm release and the REST version spoken with it.
type Release struct {
	Major, Minor, Micro int // 24, 11, 5
	REST                int // NN of v0.0.NN
}

// String is Slurm's way of writing it: "24.11.5".
func (r Release) String() string {
	return fmt.Sprintf("%02d.%02d.%d", r.Major, r.Minor, r.Micro)
}

// Before reports whether r is older than major.minor.
func (r Release) Before(major, minor int) bool {
	return r.Major < major || r.Major == major && r.Minor < minor
}

// HasSiteFactor reports whether the priority offset goes by site_factor; else
// it goes by nice.
func (r Release) HasSiteFactor() bool { return r.REST >= 40 }
