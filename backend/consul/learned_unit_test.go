package consul

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend"
)

// What is gone is not remembered for ever, but for as long as those who wait may ask.
func TestMemoryOfWhatIsGone(t *testing.T) {
	var m learned
	key := func(dir string, n uint64) string { return "/" + dir + "/" + nameOf(id, n, 0) }
	for i := range uint64(10_000) {
		m.note(backend.Entry{Key: key("a", i)})
	}
	assert.LessOrEqual(t, m.gone.Len(), goneLeast)
	const waiting = 100
	for i := range waiting {
		m.before.Put(key(fmt.Sprintf("b%d", i), 1), ahead{})
	}
	m.gone.Limit(0)
	for i := range waiting {
		m.note(backend.Entry{Key: key(fmt.Sprintf("b%d", i), 0)})
	}
	for i := range waiting {
		assert.True(t, m.gone.Has(key(fmt.Sprintf("b%d", i), 0)), "the one before %d", i)
	}
}
