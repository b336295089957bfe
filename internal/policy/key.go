package policy

import (
	"crypto/sha256"
	"encoding/hex"
)

// longKey is the length in bytes up to which a key is kept as it is.
const longKey = 64

// Key returns a key that a client has chosen, for a partition: one of more than 64 bytes is
// replaced by its SHA-256, as "sha256:" and 64 hexadecimal digits, so that keys take little memory.
func Key(chosen string) string {
	if len(chosen) <= longKey {
		return chosen
	}
	sum := sha256.Sum256([]byte(chosen))
	return "sha256:" + hex.EncodeToString(sum[:])
}
