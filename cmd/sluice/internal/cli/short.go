package cli

import (
	"crypto/sha256"
	"encoding/hex"
)

// maxShort is the length in bytes of the longest value that Short returns unchanged.
const maxShort = 64

// Short returns a value that a client chooses or, if it is longer than 64 bytes, its SHA-256, so that it takes little memory as a key.
func Short(value string) string {
	if len(value) <= maxShort {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return "sha256:" + hex.EncodeToString(sum[:])
}
