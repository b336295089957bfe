package shape

import (
	"fmt"
	"io"
	"strings"
)

// Draw writes the shape as a chart: a row for each second, a mark for each request.
func (s Shape) Draw(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: %s\n", s.Name, s.Terms)
	var granted, rejected int
	for i, sec := range s.Seconds {
		bar := strings.Repeat("█", sec.Granted) + strings.Repeat("░", sec.Waiting) + strings.Repeat("×", sec.Rejected)
		pad := strings.Repeat(" ", max(0, Requests-sec.Granted-sec.Waiting-sec.Rejected))
		fmt.Fprintf(&b, "  second %d  %s%s  %2d granted, %2d waiting, %2d rejected\n", i+1, bar, pad, sec.Granted, sec.Waiting, sec.Rejected)
		granted += sec.Granted
		rejected += sec.Rejected
	}
	fmt.Fprintf(&b, "  in all %d granted, %d rejected; the limiter counted %d and %d\n",
		granted, rejected, s.Counted.Granted, s.Counted.Rejected)
	_, err := io.WriteString(w, b.String())
	return err
}
