package operators

import "testing"

// TestCommandsOfThePageWork issues a certificate as docs/operators.md does.
func TestCommandsOfThePageWork(t *testing.T) {
	commandsOfThePageWork(t, build(t, helm, kubectl, certManagerPrograms))
}

// TestOperatorsRunWithTheirOwnRoles installs cert-manager, and prometheus-operator with the
// certificates that it issues. The second needs the first, and each claim the one before. The
// programs are started here, not in a claim: they run until the last one.
func TestOperatorsRunWithTheirOwnRoles(t *testing.T) {
	c := startCluster(t, build(t, helm, certManagerPrograms, prometheusPrograms))
	c.installCertManager(t)
	hold(t,
		claim{"certificates are issued", c.certificatesAreIssued},
		claim{"accounts may do no more", c.accountsMayDoNoMore},
		claim{"prometheus-operator is installed", c.prometheusOperatorIsInstalled},
	)
	c.startPrometheusOperator(t)
	hold(t,
		claim{"webhooks hold at once", c.webhooksHoldAtOnce},
		claim{"prometheus gets its set", c.prometheusGetsItsSet},
	)
}

// claim is what the operators do, and how that is checked.
type claim struct {
	name  string
	check func(*testing.T)
}

// hold checks claims, and ends the test with the first one that does not hold.
func hold(t *testing.T, claims ...claim) {
	t.Helper()
	for _, c := range claims {
		if !t.Run(c.name, c.check) {
			t.FailNow()
		}
	}
}
