package zookeeper

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// What is gone is not remembered for ever, but for as long as those who wait may ask.
func TestMemoryOfWhatIsGone(t *testing.T) {
	var m learned
	for i := range 10_000 {
		m.bury(fmt.Sprintf("/a/e-%d", i), uint64(i+1))
	}
	assert.LessOrEqual(t, m.gone.Len(), goneLeast)
	const waiting = 100
	for i := range waiting {
		m.before.Put(fmt.Sprintf("/b%d/e-1", i), ahead{})
	}
	m.gone.Limit(0)
	for i := range waiting {
		m.bury(fmt.Sprintf("/b%d/e-0", i), 1)
	}
	for i := range waiting {
		assert.True(t, m.gone.Has(fmt.Sprintf("/b%d/e-0", i)), "the one before %d", i)
	}
}
