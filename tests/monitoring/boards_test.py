"""The boards as Grafana needs them, and what the chart makes of boards and alerts."""

import json
import pathlib
import re
import shutil
import tempfile
import textwrap
import unittest

from monitoring import ALERTS, BOARDS, FILES, REPOSITORY, RUNBOOK, alert_names, board
from monitoring import promtool, require_tools
from helm import CHART, helm

# Kinds of panels and units that the boards use; others are a slip until they are wanted.
KINDS = {"stat", "timeseries", "bargauge"}
UNITS = {"none", "s", "h", "bytes", "percentunit", "reqps"}
COLUMNS = 24


class BoardTest(unittest.TestCase):
    def test_there_are_four_and_each_has_its_own_lasting_uid(self):
        files = {path.name for path in (FILES / "dashboards").iterdir()}
        self.assertEqual(files, set(BOARDS.values()))
        uids = [board(name)["uid"] for name in BOARDS.values()]
        self.assertEqual(sorted(uids), sorted({f"lockstep-{name.removesuffix('.json')}".replace(
            "runtime-fleet", "fleet") for name in BOARDS.values()}))
        for title, name in BOARDS.items():
            self.assertEqual(board(name)["title"], title)
            self.assertIsNone(board(name).get("id"), "Grafana gives it")

    def test_all_data_comes_from_the_source_that_the_reader_chooses(self):
        for name in BOARDS.values():
            with self.subTest(name):
                variables = {each["name"]: each for each in board(name)["templating"]["list"]}
                self.assertEqual(variables["datasource"]["type"], "datasource")
                self.assertEqual(variables["datasource"]["query"], "prometheus")
                chosen = {"type": "prometheus", "uid": "${datasource}"}
                for each in [*variables.values(), *board(name)["annotations"]["list"],
                             *board(name)["panels"]]:
                    if each is not variables["datasource"]:
                        self.assertEqual(each["datasource"], chosen)
                    for target in each.get("targets", []):
                        self.assertNotIn("datasource", target)  # it is the panel's

    def test_queries_use_only_variables_that_the_board_has(self):
        built_in = {"__rate_interval", "__range", "__range_s", "__all"}
        for name in BOARDS.values():
            variables = {each["name"] for each in board(name)["templating"]["list"]}
            used = set(re.findall(r"\$\{?(\w+)", json.dumps(board(name))))
            self.assertEqual(used - built_in, variables, name)

    def test_every_panel_has_a_title_a_unit_a_description_and_queries(self):
        for name in BOARDS.values():
            panels = board(name)["panels"]
            self.assertEqual([each["id"] for each in panels], list(range(1, len(panels) + 1)))
            for panel in panels:
                with self.subTest(name, panel=panel["title"]):
                    self.assertIn(panel["type"], KINDS)
                    self.assertTrue(panel["title"])
                    self.assertRegex(panel["description"], r"\.$")
                    self.assertIn(panel["fieldConfig"]["defaults"]["unit"], UNITS)
                    self.assertTrue(panel["targets"])
                    self.assertEqual([each["refId"] for each in panel["targets"]],
                                     list("ABCDEF")[:len(panel["targets"])])
                    for target in panel["targets"]:
                        self.assertTrue(target["expr"])
                        self.assertTrue(target["legendFormat"])

    def test_alerts_that_panels_name_are_there(self):
        names = set(alert_names())
        for name in BOARDS.values():
            named = set(re.findall(r"\((Lockstep\w+)\)", json.dumps(board(name))))
            self.assertTrue(named, name)
            self.assertEqual(named - names, set(), name)

    def test_no_panel_lies_upon_another(self):
        for name in BOARDS.values():
            taken = {}
            for panel in board(name)["panels"]:
                place = panel["gridPos"]
                self.assertLessEqual(place["x"] + place["w"], COLUMNS)
                for x in range(place["x"], place["x"] + place["w"]):
                    for y in range(place["y"], place["y"] + place["h"]):
                        self.assertNotIn((x, y), taken, f"{name}: {panel['title']} is there twice")
                        taken[x, y] = panel["title"]


class ChartTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        require_tools("helm", "promtool")
        cls.home = pathlib.Path(tempfile.mkdtemp(prefix="lockstep-helm-"))
        cls.addClassCleanup(shutil.rmtree, cls.home)

    def render(self, template, *settings):
        options = [word for setting in settings for word in ("--set", setting)]
        code, output, errors = helm(self.home, "template", "lockstep", CHART, "--show-only",
                                    f"templates/{template}.yaml", *options)
        return output if code == 0 else errors

    def test_neither_is_there_unless_asked_for(self):
        for template in ("dashboards", "alerts"):
            self.assertIn("could not find template", self.render(template))

    def test_the_config_map_holds_the_boards_and_the_sidecars_label(self):
        rendered = self.render("dashboards", "dashboards.enabled=true",
                               "dashboards.annotations.grafana_folder=Lockstep")
        self.assertIn('\n    grafana_dashboard: "1"\n', rendered)
        self.assertIn("\n  annotations:\n    grafana_folder: Lockstep\n", rendered)
        data = rendered.partition("\ndata:\n")[2]
        boards = dict(re.findall(r"^  ([a-z-]+\.json): \|\n((?:    .*\n|\n)+)", data, re.MULTILINE))
        self.assertEqual(set(boards), set(BOARDS.values()))
        for name, text in boards.items():
            self.assertEqual(json.loads(text), board(name))
        size_max = 1024 * 1024  # of a ConfigMap
        self.assertLess(len(data.encode()), size_max)

    def test_the_rule_holds_the_alerts_as_they_are(self):
        rendered = self.render("alerts", "alerts.enabled=true", "alerts.labels.release=prometheus")
        self.assertIn("\n    release: prometheus\n", rendered)
        self.assertIn("kind: PrometheusRule\n", rendered)
        rules = textwrap.dedent(rendered.partition("\nspec:\n")[2])
        self.assertEqual(rules.strip(), ALERTS.read_text().strip())
        self.assertNotIn("runbook_url", rules)  # a relative one would lead nowhere
        file = self.home / "rules.yaml"
        file.write_text(rules)
        self.assertEqual(promtool("check", "rules", file)[0], 0)

    def test_runbooks_begin_with_the_address_that_is_given(self):
        rendered = self.render("alerts", "alerts.enabled=true",
                               "alerts.runbookBase=https://wiki.example/lockstep/")
        self.assertEqual(re.findall(r"runbook_url: (\S+)", rendered),
                         [f"https://wiki.example/lockstep/{RUNBOOK.removeprefix('docs/')}#{name}"
                          for name in map(str.lower, alert_names())])
        file = self.home / "linked.yaml"
        file.write_text(textwrap.dedent(rendered.partition("\nspec:\n")[2]))
        code, said = promtool("check", "rules", file)
        self.assertEqual(code, 0, said)
        self.assertIn("SUCCESS: 16 rules found", said)

    def test_files_and_page_tell_the_same_values(self):
        page = (REPOSITORY / "docs" / "alerts.md").read_text()
        for value in ("dashboards.labels", "dashboards.annotations", "alerts.labels",
                      "alerts.runbookBase"):
            self.assertIn(f"| `{value}` |", page)


if __name__ == "__main__":
    unittest.main(verbosity=2)
