package ioreader_test

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/sluice-go/sluice/core"
	"github.com/sluice-go/sluice/ioreader"
)

// source stands for a pipe of the operating system. Pending would ask it by poll(2) and FIONREAD.
type source struct{ *strings.Reader }

func (s source) Pending() (int64, error) { return int64(s.Len()), nil }

// device stands for a destination that moves the bytes of a source by splice(2).
type device struct{ io.Writer }

func (d device) ReadFrom(r io.Reader) (int64, error) {
	limited := r.(*io.LimitedReader)
	if _, ok := limited.R.(source); ok {
		fmt.Println("move", limited.N, "bytes")
	}
	return io.Copy(d.Writer, limited)
}

func ExampleSplicer() {
	limiter := core.Must(core.NewTokenBucket(ioreader.PerSecond(1 << 20)))
	n, err := ioreader.Copy(context.Background(), device{io.Discard}, source{strings.NewReader("some text")},
		ioreader.CopyOptions{Limiter: limiter})
	fmt.Println(n, err)
	// Output:
	// move 9 bytes
	// 9 <nil>
}
