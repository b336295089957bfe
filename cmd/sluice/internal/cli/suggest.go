package cli

import "strings"

// sharedLetters is how many letters at its start a name has in common with one that was probably meant to be it.
const sharedLetters = 4

// DidYouMean returns "; did you mean NAME or NAME?" with the known names that start as the unknown one does or differ from it by one
// slip of the fingers, or "" if there are none. An underscore in the unknown name counts as a dash. Dashes at the start of the known
// names do not count.
func DidYouMean(unknown string, known []string) string {
	unknown = strings.ReplaceAll(unknown, "_", "-")
	var similar []string
	for _, name := range known {
		bare := strings.TrimLeft(name, "-")
		if len(unknown) >= sharedLetters && strings.HasPrefix(bare, unknown[:sharedLetters]) || len(unknown) > 2 && isSlip(unknown, bare) {
			similar = append(similar, name)
		}
	}
	if len(similar) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(similar, " or ") + "?"
}

// isSlip reports whether two words differ by one letter that is missing or wrong, or by two neighbors that are exchanged.
func isSlip(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch rest := a[i:]; {
	case len(a)+1 == len(b):
		return rest == b[i+1:]
	case len(a) != len(b) || rest == "":
		return false
	case rest[1:] == b[i+1:]:
		return true
	default:
		return len(rest) > 1 && rest[0] == b[i+1] && rest[1] == b[i] && rest[2:] == b[i+2:]
	}
}
