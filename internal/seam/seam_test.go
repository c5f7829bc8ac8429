package seam_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/gapless-io/gapless/internal/seam"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// config and server embed what gapless.Config and gapless.Server do.
type (
	config struct{ seam.Hidden }
	server struct{ seam.Called }
)

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
	if got := seam.To(&server{Called: seam.NewCalled(want)}); got != want {
		t.Errorf("the calls are %v, want %v", got, want)
	}
}
