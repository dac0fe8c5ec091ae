// Renders a packaged chart with the values of standard input, by Helm's own library, and names the values that the
// chart does not know. Nothing is installed and no cluster is read.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
)

type answer struct {
	Unknown     []string `json:"unknown"`
	Manifest    string   `json:"manifest"`
	Hooks       []string `json:"hooks"`
	Definitions []string `json:"definitions"`
}

func main() {
	if len(os.Args) != 5 {
		fail(fmt.Errorf("usage: charts ARCHIVE RELEASE NAMESPACE KUBERNETES"))
	}
	loaded, err := loader.Load(os.Args[1])
	fail(err)
	values := map[string]interface{}{}
	fail(json.NewDecoder(os.Stdin).Decode(&values))
	fail(json.NewEncoder(os.Stdout).Encode(render(loaded, values)))
}

func render(loaded *chart.Chart, values map[string]interface{}) answer {
	version, err := chartutil.ParseKubeVersion(os.Args[4])
	fail(err)
	install := action.NewInstall(&action.Configuration{})
	install.ReleaseName, install.Namespace, install.KubeVersion = os.Args[2], os.Args[3], version
	install.DryRun, install.ClientOnly, install.Replace = true, true, true
	// Unknown values are found first: rendering merges those of the chart into them.
	found := answer{Unknown: unread(unknown("", values, known(loaded)), loaded), Hooks: []string{}, Definitions: []string{}}
	made, err := install.Run(loaded, values)
	fail(err)
	found.Manifest = made.Manifest
	for _, hook := range made.Hooks {
		found.Hooks = append(found.Hooks, hook.Manifest)
	}
	for _, definition := range loaded.CRDObjects() {
		found.Definitions = append(found.Definitions, string(definition.File.Data))
	}
	return found
}

// What a chart knows: its own values, and those of its subcharts under their names and under `global`.
func known(loaded *chart.Chart) map[string]interface{} {
	values := map[string]interface{}{}
	for key, value := range loaded.Values {
		values[key] = value
	}
	for _, part := range loaded.Dependencies() {
		own, _ := values[part.Name()].(map[string]interface{})
		values[part.Name()] = chartutil.CoalesceTables(own, known(part))
	}
	return values
}

// An empty mapping or list, and a null, stand for anything: charts write them where users may put what they like.
func unknown(path string, given map[string]interface{}, known map[string]interface{}) []string {
	found := []string{}
	for key, value := range given {
		there, has := known[key]
		inner, nested := value.(map[string]interface{})
		table, isTable := there.(map[string]interface{})
		switch {
		case !has:
			found = append(found, path+key)
		case nested && isTable && len(table) > 0:
			found = append(found, unknown(path+key+".", inner, table)...)
		}
	}
	sort.Strings(found)
	return found
}

// A value may be in no file of values and be read by a template all the same: by its name, or with all that is beside it.
func unread(paths []string, loaded *chart.Chart) []string {
	found := []string{}
	for _, path := range paths {
		if !isRead(path, loaded.Templates) {
			found = append(found, path)
		}
	}
	return found
}

func isRead(path string, templates []*chart.File) bool {
	whole := regexp.MustCompile(regexp.QuoteMeta(".Values."+path) + `([^.\w]|$)`)
	for _, template := range templates {
		if whole.Match(template.Data) {
			return true
		}
	}
	parent := strings.LastIndex(path, ".")
	return parent > 0 && isRead(path[:parent], templates)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
