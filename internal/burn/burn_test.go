package burn

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCPUWorks(t *testing.T) {
	CPU(0)
	assert.Positive(t, perSecond())
}
