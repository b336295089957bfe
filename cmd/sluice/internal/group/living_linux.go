package group

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// living reports whether a group has a process that has not ended. Signals also reach processes that have ended but were not
// reaped; /proc tells them apart.
func living(group int) bool {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(files) == 0 {
		return true // there is no /proc to ask
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process is gone
		}
		if of, state, ok := parseStat(text); ok && of == group && state != 'Z' && state != 'X' {
			return true
		}
	}
	return false
}

// parseStat returns the group and the state of a process. They follow its name, which may contain any characters.
func parseStat(text []byte) (group int, state byte, ok bool) {
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 3 || len(fields[0]) != 1 {
		return 0, 0, false
	}
	group, err := strconv.Atoi(string(fields[2]))
	return group, fields[0][0], err == nil
}
