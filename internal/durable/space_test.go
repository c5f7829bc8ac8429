package durable_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/gapless-io/gapless/internal/durable"
)

func TestTheSpaceOfAFileSystemIsKnown(t *testing.T) {
	of, err := durable.SpaceOf(t.TempDir())
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("not on this system: %v", err)
	}
	if err != nil || of.Total <= 0 || of.Free <= 0 || of.Free > of.Total {
		t.Errorf("%+v, %v", of, err)
	}
	if _, err := durable.SpaceOf(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a directory that is not there: %v", err)
	}
}
