package main

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]int64{
		"8MiB/s": 8 << 20, "500kB/s": 500_000, "500KB/s": 500_000, "1GB/s": 1_000_000_000, "100kbit/s": 12_500,
		"1.5MiB/s": 3 << 19, "8MiB": 8 << 20, "8 MiB/s": 8 << 20, "1234B": 1234, "7B/s": 7, "9bit": 1,
		"1EiB/s": 1 << 60, ".5kB/s": 500, "0.3kiB/s": 307, "9223372036854775807B/s": math.MaxInt64,
	} {
		r, err := parseRate(text)
		if want > math.MaxInt { // where words have 32 bits
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, int64(r.bytes), text)
	}
	for text, says := range map[string]string{
		"": "number", "fast": "number", "-1MB/s": "number", "1.2.3MB": "number", ".": "number", "1e6B/s": "no unit",
		"8Mb/s": "bits or bytes", "8mb/s": "no unit", "8M": "no unit", "8iB": "no unit", "8 parsecs": "no unit", "1/3": "no unit", "8": "it has no unit", "1234/s": "it has no unit",
		"0B": "less than a byte", "7bit/s": "less than a byte", "0.9B/s": "less than a byte", "8EiB/s": "more than",
	} {
		_, err := parseRate(text)
		require.ErrorContains(t, err, says, text)
	}
}

func TestARateIsShownInItsOwnUnits(t *testing.T) {
	for text, want := range map[string]string{
		"8MiB/s": "8.00 MiB/s", "1536kiB/s": "1.50 MiB/s", "1500kB/s": "1.50 MB/s", "999B": "999 B/s", "100kbit/s": "12.50 kB/s",
	} {
		r, err := parseRate(text)
		require.NoError(t, err)
		require.Equal(t, want, r.String())
	}
}

// FuzzParseRate holds the parser to floating point where that is exact enough.
func FuzzParseRate(f *testing.F) {
	for _, text := range []string{"8MiB/s", "1.5GB", "100kbit/s", "..", "9b", "1Ei", "0000.1kB"} {
		f.Add(text)
	}
	scales := map[string]float64{
		"B": 1, "bit": 0.125, "kB": 1e3, "KB": 1e3, "kiB": 1024, "KiB": 1024, "MB": 1e6, "MiB": 1 << 20, "kbit": 125,
		"GB": 1e9, "GiB": 1 << 30, "Mbit": 125_000,
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseRate(text)
		if err == nil {
			require.Positive(t, r.bytes)
		}
		s := strings.TrimSuffix(strings.TrimSpace(text), "/s")
		number := strings.TrimRight(s, "bitBkKMGTPE ")
		scale, known := scales[strings.TrimSpace(s[len(number):])]
		want, bad := strconv.ParseFloat(number, 64)
		if !known || bad != nil || strings.Trim(number, "0123456789.") != "" || want*scale < 1.01 || want*scale > 1e15 {
			return
		}
		require.NoError(t, err)
		require.InDelta(t, want*scale, r.bytes, 1+want*scale*1e-12)
	})
}
