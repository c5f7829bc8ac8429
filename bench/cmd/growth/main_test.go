package main

import (
	"os"
	"strings"
	"testing"

	"github.com/gapless-io/gapless/bench/internal/growth"
)

func TestThePageSaysWhatIsRecorded(t *testing.T) {
	record, err := growth.ReadRecord("../../log/growth.json")
	if err != nil {
		t.Fatalf("read the record: %v", err)
	}
	has, err := os.ReadFile("../../../docs/growth.md")
	if err != nil {
		t.Fatalf("read the page: %v", err)
	}
	if record.Page() != string(has) {
		t.Error("docs/growth.md is old: cd bench && go run ./cmd/growth --page")
	}
	for i, line := range strings.Split(string(has), "\n") {
		if len(line) > 130 && !strings.HasPrefix(line, "|") {
			t.Errorf("line %d has %d bytes: %s", i+1, len(line), line)
		}
	}
}
