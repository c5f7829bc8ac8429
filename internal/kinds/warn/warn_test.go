package warn

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestUsualAddressesAreNotWarnedAbout(t *testing.T) {
	var l List
	for _, ip := range []string{"10.0.0.1", "2001:db8::1", "fe80::1", "no address", ""} {
		l.Address(nil, ip) // a path would be asked for
	}
	if l.Texts() != nil {
		t.Errorf("warnings about usual addresses: %q", l.Texts())
	}
}
