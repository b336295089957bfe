package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestBarText(t *testing.T) {
	b := &bar{all: 40}
	assert.Equal(t, "0/40 jobs [>------------] 0% 0.0/s", b.text(34, 0))
	b.ended.Store(10)
	assert.Equal(t, "10/40 jobs [==>--------] 25% 5.0/s 6s left", b.text(42, 2*time.Second))
	assert.Equal(t, "10/40 jobs  25% 5.0/s 6s left", b.text(10, 2*time.Second))
	b.ended.Store(40)
	assert.Equal(t, "40/40 jobs [=========>] 100% 4.0/s 0s left", b.text(42, 10*time.Second))
}
