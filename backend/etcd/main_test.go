package etcd_test

import (
	"os"
	"testing"

	"github.com/elector-go/elector/internal/servertest"
)

func TestMain(m *testing.M) { os.Exit(servertest.Main(m)) }
