// Package builtin has the built-in kinds of the Kubernetes API: pods, deployments, roles
// and the others that controllers use. It puts the kinds of all groups together; each group is a
// package beside this one, with the rules, the defaults, the tables and the warnings of its kinds.
//
// The suite in conformance/builtin compares all of it with upstream's. The rules (functions
// validateX of the groups' packages) are a selection of upstream's (pkg/apis/*/validation), with its texts:
// common mistakes, and objects that a controller cannot handle. Not checked are, among others: kernel
// parameters and what is for Windows only in security contexts, the volume sources of single storage vendors, resource claims
// of pods, the CEL expressions of device selectors; the cron syntax beyond its shape,
// success policies of jobs; which resources limit ranges may name; most of the status
// subresources. Nothing is allocated (cluster IPs, node ports), and there are no admission plugins.
package builtin

import (
	"slices"

	"github.com/gapless-io/gapless/internal/kinds"
	"github.com/gapless-io/gapless/internal/kinds/admissionregistration"
	"github.com/gapless-io/gapless/internal/kinds/apiextensions"
	"github.com/gapless-io/gapless/internal/kinds/apiregistration"
	"github.com/gapless-io/gapless/internal/kinds/apps"
	"github.com/gapless-io/gapless/internal/kinds/authentication"
	"github.com/gapless-io/gapless/internal/kinds/authorization"
	"github.com/gapless-io/gapless/internal/kinds/autoscaling"
	"github.com/gapless-io/gapless/internal/kinds/batch"
	"github.com/gapless-io/gapless/internal/kinds/certificates"
	"github.com/gapless-io/gapless/internal/kinds/coordination"
	"github.com/gapless-io/gapless/internal/kinds/core"
	"github.com/gapless-io/gapless/internal/kinds/discovery"
	"github.com/gapless-io/gapless/internal/kinds/events"
	"github.com/gapless-io/gapless/internal/kinds/flowcontrol"
	"github.com/gapless-io/gapless/internal/kinds/networking"
	"github.com/gapless-io/gapless/internal/kinds/node"
	"github.com/gapless-io/gapless/internal/kinds/policy"
	"github.com/gapless-io/gapless/internal/kinds/rbac"
	"github.com/gapless-io/gapless/internal/kinds/resource"
	"github.com/gapless-io/gapless/internal/kinds/scheduling"
	"github.com/gapless-io/gapless/internal/kinds/storage"
	"github.com/gapless-io/gapless/internal/kinds/storagemigration"
)

// Catalog returns a new catalog of the built-in kinds. It costs less than a
// millisecond; nothing is compiled before a kind's first use.
func Catalog() *kinds.Catalog {
	own := core.Kinds()
	event := own[slices.IndexFunc(own, func(r *kinds.Resource) bool { return r.Plural == "events" })]
	return kinds.NewCatalog(slices.Concat(
		own,
		admissionregistration.Kinds(),
		apiextensions.Kinds(),
		apiregistration.Kinds(),
		apps.Kinds(),
		authentication.Kinds(),
		authorization.Kinds(),
		autoscaling.Kinds(),
		batch.Kinds(),
		certificates.Kinds(),
		coordination.Kinds(),
		discovery.Kinds(),
		events.Kinds(event),
		flowcontrol.Kinds(),
		networking.Kinds(),
		node.Kinds(),
		policy.Kinds(),
		rbac.Kinds(),
		resource.Kinds(),
		scheduling.Kinds(),
		storage.Kinds(),
		storagemigration.Kinds(),
	)...)
}
