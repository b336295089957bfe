package cli

import "strings"

// sharedLetters is how many letters at its start a name has in common with one that was probably meant to be it.
const sharedLetters = 4

// DidYouMean returns "; did you mean NAME or NAME?" with the known names that start as the unknown one does, or "" if there are none.
// An underscore in the unknown name counts as a dash. Dashes at the start of the known names do not count.
func DidYouMean(unknown string, known []string) string {
	if len(unknown) < sharedLetters {
		return ""
	}
	start := strings.ReplaceAll(unknown[:sharedLetters], "_", "-")
	var similar []string
	for _, name := range known {
		if strings.HasPrefix(strings.TrimLeft(name, "-"), start) {
			similar = append(similar, name)
		}
	}
	if len(similar) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(similar, " or ") + "?"
}
