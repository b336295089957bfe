package cli

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sluice-go/sluice/spec"
)

// FlagError returns the usage error for an error of pflag about flags: --interval "often" is not a duration such as 250ms.
func FlagError(flags *pflag.FlagSet, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := unknown.GetSpecifiedName()
		var known []string
		flags.VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, dashed(f.Name))
			}
		})
		return Usage("unknown flag: %s%s", dashed(name), DidYouMean(name, known))
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return Usage("%s requires a value", dashed(missing.GetSpecifiedName()))
	}
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return Usage("%w", err)
	}
	if invalid.GetValue() == "" {
		return Usage("--%s is empty", invalid.GetFlag().Name)
	}
	why := invalid.Unwrap()
	text := strconv.Quote(invalid.GetValue())
	message := strings.TrimPrefix(why.Error(), text+" ")
	if number, ok := errors.AsType[*strconv.NumError](why); ok {
		message = "is not a number"
		if errors.Is(number, strconv.ErrRange) {
			message = "is out of range"
		}
		if strings.HasPrefix(number.Func, "ParseBool") {
			message = "is not true or false"
		}
	}
	return Usage("--%s %s %s", invalid.GetFlag().Name, text, message)
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// LimitFault returns the error of a limit that package spec cannot read, without the text itself, which the caller
// quotes.
func LimitFault(text string, err error) string {
	if joined := strings.Join(strings.Fields(text), ""); joined != text {
		if _, err := spec.Parse(joined); err == nil {
			return "write " + joined + ", without a space"
		}
	}
	message := strings.TrimPrefix(err.Error(), "spec: ")
	for _, quoted := range []string{text, text + "/s"} {
		message = strings.TrimPrefix(message, strconv.Quote(quoted)+": ")
	}
	return message
}

// RateFault is LimitFault with a colon in front, for a flag that accepts only rates. It is "" for an unknown word, because the
// error would then list kinds of limits that are not rates.
func RateFault(text string, err error) string {
	reason := LimitFault(text, err)
	if strings.HasPrefix(reason, "unknown kind") {
		return ""
	}
	return ": " + reason
}
