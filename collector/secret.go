// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"os"
	"strings"

	"rifling/slurm"
)

// SecretFile returns a function that reads the shared secret from a file, anew
// each time, so that it can be changed without a restart. White space around
// it does not count; an empty secret is an error.
func SecretFile(path string) func() (string, error) {
	return func() (string, error) {
		b, err := os.ReadFile(path)
		if err != nil {
			return "", slurm.WithHint(fmt.Errorf("read the secret: %w", err),
				"make it once, for example: openssl rand -hex 32, mode 0600, the same on the daemon's machine and every node")
		}
		secret := strings.TrimSpace(string(b))
		if secret == "" {
			return "", fmt.Errorf("read the secret: %w: %s", errEmptySecret, path)
		}
		return secret, nil
	}
}

var errEmptySecret = errors.New("the file is empty")

// sameSecret compares in a time that tells nothing of where they differ, nor
// of their lengths.
func sameSecret(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}
