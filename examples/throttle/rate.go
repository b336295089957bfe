package main

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
)

// rate is a bandwidth as a person writes it.
type rate struct {
	bytes  int  // per second, at least 1
	binary bool // it was given in KiB, MiB …, and is shown so
}

// prefixes by their letter; with an i they count 1024 instead of 1000.
const prefixes = "kMGTPE"

// parseRate understands 8MiB/s, 500kB/s, 1.5GB/s and 100kbit/s; "/s" may be left out, the unit not.
func parseRate(text string) (rate, error) {
	fail := func(why string) (rate, error) {
		return rate{}, fmt.Errorf("rate %q: %s; write it as 8MiB/s, 500kB/s, 1.5GB/s or 100kbit/s", text, why)
	}
	s, _ := strings.CutSuffix(strings.TrimSpace(text), "/s")
	digits := len(s) - len(strings.TrimLeft(s, "0123456789."))
	number, unit := s[:digits], strings.TrimSpace(s[digits:])
	value, ok := new(big.Rat).SetString(number)
	if !ok {
		return fail("it does not begin with a number")
	}
	scale, binary, err := parseUnit(unit)
	if err != nil {
		return fail(err.Error())
	}
	value.Mul(value, scale)
	// Rounded down: the rate asked for is not to be exceeded.
	whole := new(big.Int).Quo(value.Num(), value.Denom())
	switch {
	case whole.Sign() <= 0:
		return fail("it is less than a byte per second")
	case whole.Cmp(big.NewInt(math.MaxInt)) > 0:
		return fail("it is more than this machine can count")
	}
	return rate{int(whole.Int64()), binary}, nil
}

// parseUnit returns how many bytes the unit is.
func parseUnit(unit string) (scale *big.Rat, binary bool, err error) {
	scale = big.NewRat(1, 1)
	if unit == "" {
		return nil, false, errors.New("it has no unit, B for bytes say")
	}
	rest := unit
	letter := rest[:1]
	if letter == "K" {
		letter = "k"
	}
	if power := strings.Index(prefixes, letter) + 1; power > 0 {
		base := int64(1000)
		if rest = rest[1:]; strings.HasPrefix(rest, "i") {
			base, binary, rest = 1024, true, rest[1:]
		}
		for range power {
			scale.Mul(scale, big.NewRat(base, 1))
		}
	}
	switch rest {
	case "B":
	case "bit":
		scale.Mul(scale, big.NewRat(1, 8))
	case "b":
		return nil, false, errors.New("b may be bits or bytes: write bit or B")
	default:
		return nil, false, fmt.Errorf("%q is no unit", unit)
	}
	return scale, binary, nil
}

func (r rate) String() string { return r.show(float64(r.bytes)) + "/s" }

// show writes a number of bytes in the units that the rate was given in.
func (r rate) show(bytes float64) string {
	base, infix := 1000.0, ""
	if r.binary {
		base, infix = 1024, "i"
	}
	prefix := ""
	for _, p := range prefixes {
		if bytes < base {
			break
		}
		bytes /= base
		prefix = string(p)
		if r.binary {
			prefix = strings.ToUpper(prefix)
		}
	}
	if prefix == "" {
		return fmt.Sprintf("%.0f B", bytes)
	}
	return fmt.Sprintf("%.2f %s%sB", bytes, prefix, infix)
}
