// Package warn collects the warnings that a client gets about an object that is accepted all the same:
// fields and volumes that no longer do anything, duplicates of which one is lost, amounts and
// addresses in an unusual form. The groups of kinds use it for their warnings, whose texts, order,
// and which write gets them are those of upstream's strategies (WarningsOnCreate and
// WarningsOnUpdate in pkg/registry/*/strategy.go, pkg/api/*/warnings.go of Kubernetes 1.37); where
// upstream's order is random, it is alphabetic.
package warn

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/gapless-io/gapless/internal/kinds"
)

// most is how many warnings are made about one object. An answer has room for fewer: 4096
// characters, and 256 of each (apiserver pkg/endpoints/filters/warning.go).
const most = 400

// maxCompared bounds the pairs of parts of an object that are compared with each other, such
// as ports. No pod in use has a hundred of either; one of the maximum size would keep a
// processor busy for minutes.
const maxCompared = 100_000

// Few parts are compared faster than hashed.
const Few = 8

// List collects the warnings about one object. Its zero value has none.
type List struct {
	texts []string
	pairs int // that were compared
}

// Texts returns the warnings; nil if there are none.
func (l *List) Texts() []string { return l.texts }

// full reports whether further warnings would be in vain.
func (l *List) full() bool { return len(l.texts) >= most }

// Spend reports whether n more pairs may be compared, and counts them.
func (l *List) Spend(n int) bool {
	if l.full() || l.pairs+n > maxCompared {
		return false
	}
	l.pairs += n
	return true
}

// Say adds a warning.
func (l *List) Say(format string, args ...any) {
	if !l.full() {
		l.texts = append(l.texts, fmt.Sprintf(format, args...))
	}
}

// At adds a warning about what is at a path.
func (l *List) At(path *field.Path, format string, args ...any) {
	if !l.full() {
		l.texts = append(l.texts, path.String()+": "+fmt.Sprintf(format, args...))
	}
}

// Address warns about an address whose form is not the usual one.
func (l *List) Address(parent func() *field.Path, value string) {
	ip, err := netip.ParseAddr(value)
	if l.full() || err == nil && (ip.Is4() || !ip.Is4In6() && ip.String() == value) {
		return
	}
	if netutils.ParseIPSloppy(value) != nil { // upstream logs what is no address at all
		l.texts = append(l.texts, validation.GetWarningsForIP(parent(), value)...)
	}
}

// CIDR warns about a range of addresses whose form is not the usual one.
func (l *List) CIDR(parent func() *field.Path, value string) {
	prefix, err := netip.ParsePrefix(value)
	if l.full() ||
		err == nil && prefix.Masked() == prefix && (prefix.Addr().Is4() || !prefix.Addr().Is4In6() && prefix.String() == value) {
		return
	}
	if _, _, err := netutils.ParseCIDRSloppy(value); err == nil {
		l.texts = append(l.texts, validation.GetWarningsForCIDR(parent(), value)...)
	}
}

// WholeBytes warns about an amount of bytes that is not a whole number.
func (l *List) WholeBytes(at func() *field.Path, amounts corev1.ResourceList, name corev1.ResourceName) {
	const milli = 1000
	if amount, has := amounts[name]; has && amount.MilliValue()%milli != 0 {
		l.At(at().Key(string(name)), "fractional byte value %q is invalid, must be an integer", amount.String())
	}
}

// Hostname returns the warning about a name that the hosts of pods cannot have; used says
// where it is used.
func (l *List) Hostname(name, used string) {
	if why := kinds.LabelName(name); len(why) > 0 {
		l.Say(
			"metadata.name: this is used in %s, which can result in surprising behavior; a DNS label is recommended: %v",
			used,
			why,
		)
	}
}

// PodNames is where the names of workloads are used.
const PodNames = "Pod names and hostnames"

// Repeated returns the positions of those of n parts whose key an earlier one has.
func Repeated(n int, key func(i int) string) []int {
	if n < 2 {
		return nil
	}
	var again []int
	var seen map[string]bool
	if n > Few {
		seen = make(map[string]bool, n)
	}
	for i := range n {
		if n > Few {
			if k := key(i); seen[k] {
				again = append(again, i)
			} else {
				seen[k] = true
			}
			continue
		}
		for j := range i {
			if key(j) == key(i) {
				again = append(again, i)
				break
			}
		}
	}
	return again
}
