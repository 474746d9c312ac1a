package main

import (
	"testing"

	"github.com/elector-go/elector/internal/pagetest"
)

func TestPage(t *testing.T) {
	pagetest.Shows(t, "../../docs/start.md", "main.go", "main_test.go", "numbered.go", "numbered_test.go")
}
