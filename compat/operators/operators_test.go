package operators

import (
	"flag"
	"testing"
)

var both = flag.Bool("both", false, "run both operators by client-go; unfinished: it has not passed yet")

// TestCommandsOfThePageWork issues a certificate as docs/operators.md does.
func TestCommandsOfThePageWork(t *testing.T) { commandsOfThePageWork(t, build(t)) }

// TestOperatorsRunWithTheirOwnRoles installs cert-manager, and prometheus-operator with the
// certificates that it issues. The second needs the first, and each claim the one before.
func TestOperatorsRunWithTheirOwnRoles(t *testing.T) {
	if !*both {
		t.Skip("only with -both")
	}
	c := startCluster(t, build(t))
	c.installCertManager(t)
	for _, claim := range []struct {
		name  string
		check func(*testing.T)
	}{
		{"certificates are issued", c.certificatesAreIssued},
		{"accounts may do no more", c.accountsMayDoNoMore},
		{"prometheus-operator is installed", c.prometheusOperatorIsInstalled},
		{"webhooks hold at once", c.webhooksHoldAtOnce},
		{"prometheus gets its set", c.prometheusGetsItsSet},
	} {
		if !t.Run(claim.name, claim.check) {
			return
		}
	}
}
