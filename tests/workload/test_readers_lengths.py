import pytest

from smetric_gym.errors import SmetricError
from smetric_gym.workload.readers import read_trace

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n"
BURST = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"


@pytest.fixture
def read(tmp_path):
    def write_and_read(text, **options):
        path = tmp_path / "t.csv"
        path.write_text(text)
        return read_trace(path, **options)

    return write_and_read


def test_azure_times_have_seven_digits_and_nothing_is_shared(read):
    trace = read(AZURE + "2023-11-16 18:17:04.0319601,3180,8\n\n2023-11-17 00:00:00.000000+00:00,3180,0\n")
    assert trace.requests["arrival"] == pytest.approx([0, 0.0520001, 20576.02004], abs=1e-6)
    assert trace.requests["output"].tolist() == [10, 8, 1] and trace.sessions == 3
    assert not trace.has_content and not trace.has_gaps
    assert (trace.requests["base"] == -1).all() and (trace.requests["shared"] == 0).all()
    assert trace.report["rows with zero output, raised to 1"] == 1


def test_burstgpt_keeps_sessions_and_counts_failures(read):
    rows = "5,7,1,ChatGPT,472,18,490,Conversation log\n45,8,1,GPT-4,20,0,20,API log\n"
    rows += "50,7,1,ChatGPT,600,5,605,Conversation log\n"
    trace = read(BURST + rows)
    assert trace.requests["session"].tolist() == [0, 1, 0] and trace.requests["parent"].tolist() == [
        -1,
        -1,
        0,
    ]
    assert trace.requests["arrival"].tolist() == [0, 40, 45] and not trace.has_content
    assert trace.report["failed requests (0 response tokens), output raised to 1"] == 1
    plain = (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,API log\n"
    )
    assert read(plain + "6,ChatGPT,472,18,490,API log\n").sessions == 2


def test_months_are_read_and_years_are_not(read):
    rows = "0,7,1,ChatGPT,472,18,490,API log\n5269973,8,1,ChatGPT,472,18,490,API log\n"
    assert read(BURST + rows).span_s == 5269973
    with pytest.raises(SmetricError, match=r"line 4: timestamp is 1e\+18 s, allowed: at most 3.2e\+07 s from"):
        read(BURST + rows + "1e18,9,1,ChatGPT,472,18,490,API log\n")


def test_repeated_rows_are_counted(read):
    assert read(AZURE + AZURE.splitlines()[1] + "\n").report["repeated rows, kept"] == 1


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("yesterday,10,10", "TIMESTAMP is 'yesterday'"),
        ("NaT,10,10", "TIMESTAMP is 'NaT'"),
        ("2023-11-16 18:17:03,-10,10", "contexttokens is -10"),
        ("2023-11-16 18:17:03,10,ten", "generatedtokens is 'ten'"),
        ("2026-03-16 18:17:03,10,10", "timestamp is 1.77369e.09 s"),
        ("2023-11-16 18:17:03,10", "the row is 2 fields"),
    ],
)
def test_bad_rows_are_named_or_skipped(read, line, words):
    with pytest.raises(SmetricError, match=rf"t\.csv line 3: {words}.*allowed.*workload\.on_bad=skip \(on_bad"):
        read(AZURE + line + "\n")
    trace = read(AZURE + line + "\n", on_bad="skip")
    assert len(trace) == 1 and trace.report["bad rows skipped"] == 1


def test_a_header_without_the_columns_is_an_error_in_any_case(read):
    with pytest.raises(SmetricError, match="line 1: no column 'request tokens'"):
        read(AZURE, format="burstgpt", on_bad="skip")
