package elector_test

import (
	"testing"
	"testing/synctest"

	"github.com/elector-go/elector/backend/memory"
)

// README.md shows it.
func TestReadmeMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := memory.New(memory.Options{})
		process := service.Client("host-1") // give it to elector.Config.Backend
		// …
		process.Suspend() // its link goes dead: what does your leader do?
	})
}
