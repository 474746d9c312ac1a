package etcd_test

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) { os.Exit(shared.Close(m.Run())) }
