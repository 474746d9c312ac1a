package electionrules

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/conformance/history"
)

// The saved history of a broken rule can be loaded again.
func TestChronicleIsSaved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	h := newChronicle("/e", history.Options{Ordered: true})
	h.note("the %s", "beginning")
	h.During(history.Force, "somebody deletes")()
	path, ok := strings.CutPrefix(h.save(t), "history saved: ")
	require.True(t, ok, path)
	loaded, err := history.Load(path)
	require.NoError(t, err)
	if n := len(loaded.Events); n != 2 || !strings.Contains(loaded.Events[0].Text, "the beginning") || loaded.Events[1].Election != "/e" {
		t.Errorf("loaded %v", loaded.Events)
	}
	assert.True(t, loaded.Promised.Ordered, "what was promised is lost: %+v", loaded.Promised)
	if got := h.tail(); !strings.Contains(got, "the beginning") {
		t.Errorf("tail is %q", got)
	}
}

func TestChronicleSaysWhyItIsNotSaved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()+"/none")
	if got := newChronicle("/e", history.Options{}).save(t); !strings.Contains(got, "not saved") {
		t.Errorf("save said %q", got)
	}
}
