package seam_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/seam"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hidden and called are how gapless.Config and gapless.Server embed them.
type (
	hidden = seam.Hidden
	called = seam.Called
)

type config struct{ hidden }

type server struct{ called }

// calls answers nothing: what it is asked panics.
type calls struct{ seam.Calls }

func TestACopyOfAConfigurationHasItsOptions(t *testing.T) {
	var cfg config
	disk := seam.NewDisk()
	seam.Of(&cfg).Disk = disk
	own := cfg
	seam.Of(&cfg).Disk = nil
	if got := seam.Of(&own).Disk; got != disk {
		t.Errorf("the copy has the disk %p, want %p", got, disk)
	}
}

func TestAServerIsAskedByItsCalls(t *testing.T) {
	want := &calls{}
	if got := seam.To(&server{called: seam.NewCalled(want)}); got != want {
		t.Errorf("the calls are %v, want %v", got, want)
	}
}
