// SPDX-License-Identifier: Apache-2.0

package browser_test

import "github.com/chromedp/cdproto/runtime"

// awaited waits for a promise's value.
func awaited(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
