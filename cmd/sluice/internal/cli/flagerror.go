package cli

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// FlagError returns the usage error for an error of pflag about flags: --interval "often" is not a duration such as 250ms.
func FlagError(flags *pflag.FlagSet, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := unknown.GetSpecifiedName()
		if now := renamed[name]; flags.Lookup(now) != nil {
			return Usage("unknown flag: %s; use --%s", dashed(name), now)
		}
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

// renamed are flags that other commands have, and what they are called here.
var renamed = map[string]string{
	"rate": "limit", "rate-limit": "limit", "spec": "limit", "limits": "limit", "bwlimit": "limit", "L": "limit",
	"rate-per-key": "limit-per-key", "key-limit": "limit-per-key",
	"P": "jobs", "max-procs": "jobs", // flags of xargs
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
