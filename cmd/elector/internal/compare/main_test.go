package compare

import (
	"os"
	"testing"

	"github.com/elector-go/elector/internal/servertest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := servertest.Shutdown(); err != nil && code == 0 {
		code = 1
	}
	os.Exit(code)
}
