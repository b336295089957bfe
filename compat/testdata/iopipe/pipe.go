// Package io has a Pipe of package pipe under the names of the standard library's, so that the tests of io.Pipe can run
// with it.
package io

import (
	"io"

	"github.com/sluice-go/sluice/pipe"
)

// What the tests take from package io.
type (
	Reader      = io.Reader
	Writer      = io.Writer
	WriteCloser = io.WriteCloser
	PipeReader  = pipe.Reader
	PipeWriter  = pipe.Writer
)

// What the tests take from package io.
var (
	EOF              = io.EOF
	ErrClosedPipe    = io.ErrClosedPipe
	ErrUnexpectedEOF = io.ErrUnexpectedEOF
	ErrShortWrite    = io.ErrShortWrite

	ReadFull    = io.ReadFull
	WriteString = io.WriteString
)

// Pipe returns the ends of a pipe without a limit.
func Pipe() (*PipeReader, *PipeWriter) {
	r, w, err := pipe.New(pipe.Options{})
	if err != nil {
		panic(err)
	}
	return r, w
}
