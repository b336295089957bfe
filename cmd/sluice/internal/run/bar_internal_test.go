package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestBarText(t *testing.T) {
	b := &bar{all: 40}
	assert.Equal(t, "0/40 jobs [>------------] 0% 0.0/s", b.text(34, 0))
	b.ended.Store(10)
	assert.Equal(t, "10/40 jobs [==>--------] 25% 5.0/s 6s left", b.text(42, 2*time.Second))
	assert.Equal(t, "10/40 jobs  25% 5.0/s 6s left", b.text(10, 2*time.Second))
	b.ended.Store(40)
	assert.Equal(t, "40/40 jobs [=========>] 100% 4.0/s 0s left", b.text(42, 10*time.Second))
	b = &bar{}
	b.ended.Store(10)
	assert.Equal(t, "10 jobs 5.0/s 2s", b.text(80, 2*time.Second))
}

// The number of jobs is known before they run, except for stdin alone.
func TestTotal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("1\n2\n3"), 0o600))
	for _, test := range []struct {
		flags flags
		args  []string
		want  int
	}{
		{flags{}, []string{":::", "a", "b", "c"}, 3},
		{flags{perJob: 2}, []string{":::", "a", "b", "c"}, 2},
		{flags{files: []string{file}}, nil, 3},
		{flags{files: []string{file}, header: ":"}, nil, 2},
		{flags{files: []string{file}, delimiter: "2"}, nil, 2},
		{flags{files: []string{file}}, []string{":::", "a", "b"}, 6},
		{flags{}, []string{":::", "a", "b", ":::"}, 2},
		{flags{}, []string{":::"}, 0},
		{flags{}, nil, 0},
		{flags{files: []string{"-"}}, []string{":::", "a"}, 2},
	} {
		test.flags.perJob, test.flags.bar = max(test.flags.perJob, 1), true
		_, in, err := test.flags.inputs(append([]string{"echo"}, test.args...))
		require.NoError(t, err)
		o, err := in.open(strings.NewReader("x\ny\n"))
		require.NoError(t, err)
		jobs, err := in.count(o)
		require.NoError(t, err)
		assert.Equal(t, test.want, jobs, "%q", test.args)
		all, err := readRows(o.rows)
		require.NoError(t, err)
		if jobs > 0 {
			assert.Len(t, all, test.want, "%q", test.args)
		}
	}
}
