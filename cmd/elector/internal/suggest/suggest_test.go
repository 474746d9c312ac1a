package suggest

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestDidYouMean(t *testing.T) {
	all := []string{"candidates", "compare", "ls", "rm", "run", "status"}
	for name, want := range map[string]string{
		"comprae": ". Did you mean compare?",
		"Status":  ". Did you mean status?",
		"cand":    ". Did you mean candidates?",
		"rn":      ". Did you mean rm or run?",
		"r":       ". Did you mean rm or run?",
		"rux":     ". Did you mean run?",
		"frob":    "",
		"":        "",
		"x":       "",
		"主機":      "",
	} {
		assert.Equal(t, want, DidYouMean(name, all), name)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"comprae", "compare", 2}, {"主機", "機", 1}, {"fair", "fair", 0}} {
		assert.Equal(t, c.want, distance(c.a, c.b), c)
	}
}

func TestStrategy(t *testing.T) {
	item, err := Strategy("fair")
	assert.NoError(t, err)
	assert.Equal(t, "fair", item.Strategy.Name())
	_, err = Strategy("far")
	assert.ErrorContains(t, err, `--strategy "far": unknown: there are fair, unfair`)
	assert.ErrorContains(t, err, ". Did you mean fair?")
}
