// Package warnings says what is questionable in objects of the built-in kinds that are
// accepted all the same: fields and volumes that no longer do anything, duplicates of which
// one is lost, amounts and addresses in an unusual form. The texts, their order, and which
// write gets them are those of upstream's strategies (WarningsOnCreate and WarningsOnUpdate in
// pkg/registry/*/strategy.go, pkg/api/*/warnings.go of Kubernetes 1.37); where upstream's
// order is random, it is alphabetic.
//
// It has one noun. A warning function ([Pod], [Service]) returns the warnings about a write
// of one kind's object; old is nil for a creation.
package warnings

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// most is how many warnings are made about one object. An answer has room for fewer: 4096
// characters, and 256 of each (apiserver pkg/endpoints/filters/warning.go).
const most = 400

// maxCompared bounds the pairs of parts of an object that are compared with each other, such
// as ports. No pod in use has a hundred of either; one of the maximum size would keep a
// processor busy for minutes.
const maxCompared = 100_000

// few parts are compared faster than hashed.
const few = 8

// list collects warnings.
type list struct {
	texts []string
	pairs int // that were compared
}

// full reports whether further warnings would be in vain.
func (l *list) full() bool { return len(l.texts) >= most }

// spend reports whether n more pairs may be compared, and counts them.
func (l *list) spend(n int) bool {
	if l.full() || l.pairs+n > maxCompared {
		return false
	}
	l.pairs += n
	return true
}

// say adds a warning.
func (l *list) say(format string, args ...any) {
	if !l.full() {
		l.texts = append(l.texts, fmt.Sprintf(format, args...))
	}
}

// at adds a warning about what is at a path.
func (l *list) at(path *field.Path, format string, args ...any) {
	if !l.full() {
		l.texts = append(l.texts, path.String()+": "+fmt.Sprintf(format, args...))
	}
}

// address warns about an address whose form is not the usual one.
func (l *list) address(parent func() *field.Path, value string) {
	ip, err := netip.ParseAddr(value)
	if l.full() || err == nil && (ip.Is4() || !ip.Is4In6() && ip.String() == value) {
		return
	}
	if netutils.ParseIPSloppy(value) != nil { // upstream logs what is no address at all
		l.texts = append(l.texts, validation.GetWarningsForIP(parent(), value)...)
	}
}

// cidr warns about a range of addresses whose form is not the usual one.
func (l *list) cidr(parent func() *field.Path, value string) {
	prefix, err := netip.ParsePrefix(value)
	if l.full() || err == nil && prefix.Masked() == prefix && (prefix.Addr().Is4() || !prefix.Addr().Is4In6() && prefix.String() == value) {
		return
	}
	if _, _, err := netutils.ParseCIDRSloppy(value); err == nil {
		l.texts = append(l.texts, validation.GetWarningsForCIDR(parent(), value)...)
	}
}

// wholeBytes warns about an amount of bytes that is not a whole number.
func (l *list) wholeBytes(at func() *field.Path, amounts corev1.ResourceList, name corev1.ResourceName) {
	const milli = 1000
	if amount, has := amounts[name]; has && amount.MilliValue()%milli != 0 {
		l.at(at().Key(string(name)), "fractional byte value %q is invalid, must be an integer", amount.String())
	}
}

// hostname returns the warning about a name that the hosts of pods cannot have; used says
// where it is used.
func (l *list) hostname(name, used string) {
	if why := validation.IsDNS1123Label(name); len(why) > 0 {
		l.say("metadata.name: this is used in %s, which can result in surprising behavior; a DNS label is recommended: %v", used, why)
	}
}

// podNames is where the names of workloads are used.
const podNames = "Pod names and hostnames"

// repeated returns the positions of those of n parts whose key an earlier one has.
func repeated(n int, key func(i int) string) []int {
	if n < 2 {
		return nil
	}
	var again []int
	var seen map[string]bool
	if n > few {
		seen = make(map[string]bool, n)
	}
	for i := range n {
		if n > few {
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
