package driver_test

import (
	"testing"

	"github.com/elector-go/elector/backend/driver"
)

func TestWaker(t *testing.T) {
	w := driver.NewWaker()
	for range 3 {
		w.Wake() // and does not block
	}
	<-w
	select {
	case <-w:
		t.Error("woken twice")
	default:
	}
	w.Wake()
	<-w
}
