package config

import (
	"encoding/base64"
	"errors"
	"strings"

	"github.com/sluice-go/sluice/cmd/sluice/internal/route"
)

// Read returns the value of a header, a cookie or a query parameter that a client has sent. All spellings that servers are
// known to read alike have one value. It returns an error for a text that servers read differently.
func (p KeyPart) Read(text string) (string, error) {
	var err error
	switch {
	case p.Kind == KeyHeader && p.Name == "Authorization":
		text, err = credentials(text)
	case p.Kind == KeyCookie:
		text, err = cookieValue(text)
	case p.Kind == KeyQuery:
		text = plusAsSpace(text)
	}
	return Text(text), err
}

// credentials returns the value of an Authorization header with its scheme in lower case and one space after it. Credentials that
// are not a list of parameters, as for Digest, are one word.
func credentials(text string) (string, error) {
	if strings.ContainsFunc(text, func(c rune) bool { return c > '~' }) {
		return "", errors.New("credentials have a character that is not ASCII") // some are spaces to some servers
	}
	words := strings.Fields(text)
	if len(words) < 2 {
		return strings.Join(words, ""), nil
	}
	scheme, first := strings.ToLower(words[0]), words[1]
	isParameter := strings.Contains(strings.TrimRight(first, "="), "=")
	if len(words) > 2 && !isParameter {
		return "", errors.New("credentials have several words")
	}
	if scheme == "basic" {
		if _, err := base64.StdEncoding.Strict().DecodeString(first); err != nil {
			return "", errors.New("credentials are not base64")
		}
	}
	return scheme + " " + strings.Join(words[1:], " "), nil
}

// cookieValue decodes a value as PHP, Express and Rack do. Servers that decode nothing tell more values apart.
func cookieValue(text string) (string, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, `"`) && strings.Contains(text, `\`) {
		return "", errors.New("a quoted cookie has a backslash") // Python reads octal digits behind it
	}
	return plusAsSpace(route.Unescape(strings.Trim(text, `"`))), nil
}

// plusAsSpace makes no difference between a plus sign and a space: some servers decode the first to the second, some do not.
func plusAsSpace(text string) string { return strings.ReplaceAll(text, "+", " ") }

// IsNamed reports whether a server may take a cookie or a query parameter for the one of the part. PHP, for example, reads
// user.id, user[id and " user_id" as user_id, and others read user_id[0] and [user_id] so. Letter case counts.
func (p KeyPart) IsNamed(name string) bool { return isAlias(name, p.Name) }

// IsNamedFold is like IsNamed, but without regard to letter case, as ASP.NET reads names.
func (p KeyPart) IsNamedFold(name string) bool {
	return isAlias(strings.ToLower(name), strings.ToLower(p.Name))
}

func isAlias(name, of string) bool {
	if name == of {
		return true
	}
	name, _, _ = strings.Cut(name, "\x00")
	name, of = strings.Trim(name, " []"), strings.Trim(of, " []")
	if flatten(name) == flatten(of) {
		return true
	}
	rest, ok := strings.CutPrefix(underscored.Replace(name), underscored.Replace(of))
	return ok && (rest == "" || rest[0] == '[' || rest[0] == ']')
}

var underscored = strings.NewReplacer(" ", "_", ".", "_")

func flatten(name string) string { return strings.ReplaceAll(underscored.Replace(name), "[", "_") }
