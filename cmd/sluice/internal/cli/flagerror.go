package cli

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// FlagError returns the usage error for an error of pflag: --interval "often" is not a duration such as 250ms.
func FlagError(err error) error {
	invalid, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return Usage("%w", err)
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
