package policy

import (
	"crypto/sha256"
	"encoding/hex"
)

// maxKeyLen is the length in bytes of the longest key that is kept unchanged.
const maxKeyLen = 64

// Key returns the key of a partition for the first of the values, which the client controls, or "" if there is none. A value
// of more than 64 bytes is replaced by its SHA-256, as "sha256:" and 64 hexadecimal digits, so that keys take little memory.
func Key(values ...string) string {
	if len(values) == 0 {
		return ""
	}
	value := values[0]
	if len(value) <= maxKeyLen {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return "sha256:" + hex.EncodeToString(sum[:])
}
