//go:build !linux

package upstream

func unsent(uintptr) int { return 0 }
