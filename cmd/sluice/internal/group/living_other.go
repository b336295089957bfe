//go:build unix && !linux

package group

// living reports that a group which signals reach has a process: whether all of its processes have ended is not known.
func living(int) bool { return true }
