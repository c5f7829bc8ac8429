package operators

import "testing"

// TestOperatorsRunWithTheirOwnRoles installs cert-manager, and prometheus-operator with the
// certificates that it issues. The second needs the first, and each claim the one before.
func TestOperatorsRunWithTheirOwnRoles(t *testing.T) {
	bin := build(t)
	t.Run("commands of the page work", func(t *testing.T) { commandsOfThePageWork(t, bin) })
	c := startCluster(t, bin)
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
