package run

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// streams returns the two streams of a job, and what both have passed on.
func streams(tag string) (stdout, stderr *stream, passed *strings.Builder) {
	passed = new(strings.Builder)
	o := &output{out: passed, err: passed}
	return &stream{output: o, w: o.out, tag: tag}, &stream{output: o, w: o.err, tag: tag}, passed
}

func write(t *testing.T, s *stream, text string) {
	t.Helper()
	n, err := io.WriteString(s, text)
	require.NoError(t, err)
	require.Equal(t, len(text), n)
}

// TestStreamIsKept: what a job prints is kept until it is shown, an unfinished line as it is. What a child prints later
// passes in lines, the last of which gets an end.
func TestStreamIsKept(t *testing.T) {
	for name, size := range map[string]int{"in memory": 10, "in a file": 2 * maxInMemory} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, passed := streams("")
			text := strings.Repeat("x", size)
			write(t, stdout, text)
			write(t, stderr, "error\n")
			assert.Empty(t, passed.String())
			stdout.output.show(stdout, stderr)
			assert.True(t, stdout.output.intact())
			assert.Equal(t, text+"error\n", passed.String())
			stdout.end()
			assert.Equal(t, text+"error\n", passed.String())
			passed.Reset()
			write(t, stderr, "late\nla")
			assert.Equal(t, "late\n", passed.String())
			write(t, stderr, "st")
			stderr.end()
			assert.Equal(t, "late\nlast\n", passed.String())
			assert.Equal(t, int64(size), stdout.written())
		})
	}
}

// TestStreamPasses: from pass on whole lines pass as they come, each behind its tag.
func TestStreamPasses(t *testing.T) {
	stdout, stderr, passed := streams("tag: ")
	write(t, stdout, "a\nb\nc")
	assert.Empty(t, passed.String())
	stdout.pass()
	stderr.pass()
	stdout.pass() // again: nothing
	assert.Equal(t, "tag: a\ntag: b\n", passed.String())
	write(t, stderr, "x\n")
	write(t, stdout, "d\n")
	assert.Equal(t, "tag: a\ntag: b\ntag: x\ntag: cd\n", passed.String())
	write(t, stdout, "e")
	stdout.endLine()
	stdout.endLine() // again: nothing
	stdout.end()
	stderr.end()
	assert.Equal(t, "tag: a\ntag: b\ntag: x\ntag: cd\ntag: e\n", passed.String())
}

// TestStreamOfAnEarlierTry: nothing of it is shown, nor of what a child of it prints later.
func TestStreamOfAnEarlierTry(t *testing.T) {
	stdout, _, passed := streams("")
	write(t, stdout, "before\n")
	stdout.drop()
	write(t, stdout, strings.Repeat("late\n", maxInMemory))
	stdout.end()
	assert.Empty(t, passed.String())
	assert.Nil(t, stdout.kept.file)
}

// TestOutputIsBroken: after the first write that fails nothing is written, and the error is reported once.
func TestOutputIsBroken(t *testing.T) {
	stdout, stderr, passed := streams("")
	var reported []error
	stdout.output.failed = func(err error) { reported = append(reported, err) }
	r, w := io.Pipe()
	gone := errors.New("no reader")
	require.NoError(t, r.CloseWithError(gone))
	stdout.w = w
	stdout.pass()
	write(t, stdout, "a\nb\n")
	write(t, stdout, "c\n")
	stderr.pass()
	write(t, stderr, "d\n")
	assert.Equal(t, []error{gone}, reported)
	assert.Empty(t, passed.String())
	stdout.output.show(stdout, stderr)
	assert.False(t, stdout.output.intact())
}
