package harness

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/elector-go/elector/conformance/history"
)

// Save writes a history to a file that outlives the test, and returns a text that says where it is.
func Save(t testing.TB, h *history.History) string {
	t.Helper()
	dir, err := "", error(nil)
	if f := flag.Lookup("test.artifacts"); f != nil && f.Value.String() == "true" {
		dir = t.ArtifactDir()
	} else {
		dir, err = os.MkdirTemp("", "elector-history-")
	}
	path := filepath.Join(dir, "history.jsonl")
	if err == nil {
		err = h.Save(path)
	}
	if err != nil {
		return fmt.Sprintf("history not saved: %v", err)
	}
	return "history saved: " + path
}
