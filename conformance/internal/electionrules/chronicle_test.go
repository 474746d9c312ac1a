package electionrules

import (
	"strings"
	"testing"

	"github.com/elector-go/elector/conformance/history"
)

// What a broken rule leaves behind can be loaded again.
func TestChronicleIsSaved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	h := newChronicle("/e", history.Options{Ordered: true})
	h.note("the %s", "beginning")
	h.During(history.Force, "somebody deletes")()
	path, ok := strings.CutPrefix(h.save(t), "history saved: ")
	if !ok {
		t.Fatal(path)
	}
	loaded, err := history.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(loaded.Events); n != 2 || !strings.Contains(loaded.Events[0].Text, "the beginning") || loaded.Events[1].Election != "/e" {
		t.Errorf("loaded %v", loaded.Events)
	}
	if !loaded.Promised.Ordered {
		t.Errorf("what was promised is lost: %+v", loaded.Promised)
	}
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
