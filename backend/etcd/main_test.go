package etcd_test

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := shutdown(); err != nil && code == 0 {
		code = 1
	}
	os.Exit(code)
}
