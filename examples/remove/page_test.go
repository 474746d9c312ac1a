package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPage holds that docs/operations.md shows this program from its package clause on.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if program := regexp.MustCompile(`(?ms)^package .*`).FindString(string(code)); !strings.Contains(string(page), "```go\n"+program+"```\n") {
		t.Errorf("docs/operations.md does not show:\n%s", program)
	}
}
