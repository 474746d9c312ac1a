package services_test

import (
	"os/exec"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/backend/dial"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/services"
)

// TestAll checks that each backend that a URL opens is registered, and that dial knows what is registered.
func TestAll(t *testing.T) {
	var names []string
	for _, s := range services.All {
		names = append(names, s.Name)
		b := must.Get(dial.Open(t.Context(), s.URL("127.0.0.1:1", 10*time.Second)))(t)
		assert.Equal(t, s.Name, b.String())
		assert.NoError(t, b.Close())
		assert.Contains(t, dial.Usage(), s.Scheme+"://")
	}
	out := must.Get(exec.CommandContext(t.Context(), "go", "list", "-f", `{{join .Imports "\n"}}`, "../../backend/dial").Output())(t)
	var opened []string
	for at := range strings.FieldsSeq(string(out)) {
		if name := path.Base(at); strings.HasSuffix(at, "/elector/backend/"+name) && name != "memory" { // which has no servers
			opened = append(opened, name)
		}
	}
	assert.ElementsMatch(t, opened, names)
}
